"""The report: figures for print and for a browser, the page, the terminal."""
