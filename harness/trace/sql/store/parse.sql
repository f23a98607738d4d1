SELECT json_serialize_sql($1::VARCHAR);
