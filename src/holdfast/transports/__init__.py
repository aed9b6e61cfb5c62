"""Ways to tell idle workers that work has come. They may deliver; only the store owns."""
