SELECT blob FROM blob WHERE blob_key IN (SELECT unnest(from_json($1, '["UBIGINT"]')));
