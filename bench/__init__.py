"""Holdfast beside its peers on this machine: ``make bench``."""
