SELECT score_key FROM score WHERE score_key IN (SELECT unnest(from_json($1, '["UBIGINT"]')));
