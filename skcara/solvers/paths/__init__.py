"""Paths of penalties from second moments."""
