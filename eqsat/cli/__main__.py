from eqsat.cli import app

app()
