"""What Vela emits for an Ethos-U: decoded, printed and run."""
