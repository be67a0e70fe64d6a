"""`advise` beyond a box: one pool of servers, or a prefill and a decode pool, for a rate within limits."""
