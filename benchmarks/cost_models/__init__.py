"""How well do cost models predict Vela? Equivalent graphs of every model, each compiled whole, against every model's
`total`."""
