SELECT version(), (SELECT max(version) FROM schema_version), (SELECT max(views) FROM schema_version);
