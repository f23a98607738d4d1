DELETE FROM progress WHERE file = $1;
