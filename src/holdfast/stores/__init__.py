"""One room per place where jobs can live."""
