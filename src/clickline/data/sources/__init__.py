"""Where rows come from: files, compression, blocks of text or columns, readers of the user's own."""
