"""The checker of equality for every input, on saved graphs and on graphs with one error each."""
