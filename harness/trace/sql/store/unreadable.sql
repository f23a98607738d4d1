SELECT file, line, what FROM unreadable ORDER BY file, line;
