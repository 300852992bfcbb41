"""Converts tables of published training runs, as their sources print them, to the dialect of
results/published/."""
