DELETE FROM unreadable WHERE file = $1 AND line = 0;
