"""Tools that do not depend on graphs: files, processes, names, versions, packed data and drawings."""
