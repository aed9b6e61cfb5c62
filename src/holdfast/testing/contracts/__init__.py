"""The parts of the store contract, by what they ask."""
