SELECT coalesce(max(row_id), 0), (SELECT coalesce(max(nth), 0) FROM alert_change), (SELECT coalesce(max(nth), 0) FROM silence) FROM span;
