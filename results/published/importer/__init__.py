"""Turns tables of published training runs, as their sources print them, into the dialect of results/published/."""
