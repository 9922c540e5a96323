"""What Vela emits, run and compared: random graphs and saved networks, their binaries on the functional model; see
`__main__.py`."""
