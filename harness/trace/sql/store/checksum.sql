-- One number for everything that the index says, whatever order it was written in.
SELECT
    (SELECT bit_xor(hash(s)) FROM (SELECT * EXCLUDE (row_id, content_key) FROM span_live) AS s),
    (SELECT bit_xor(hash(m)) FROM (SELECT * FROM messages) AS m),
    (SELECT count(*) FROM span_live),
    (SELECT count(*) FROM messages);
