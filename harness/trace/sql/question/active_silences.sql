SELECT silence_id, rule, agent, until_at, "by", reason, "at"
FROM (SELECT *, row_number() OVER (PARTITION BY silence_id ORDER BY nth DESC) AS from_last FROM silence)
WHERE from_last = 1 AND until_at > make_timestamp($1::BIGINT)
ORDER BY until_at
