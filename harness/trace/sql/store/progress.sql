SELECT file, read_to, lines, modified_at_ns FROM progress;
