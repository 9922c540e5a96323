"""Tools that know nothing of graphs: files, processes, names, versions, packed data, drawings."""
