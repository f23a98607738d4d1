SELECT * FROM alerts WHERE state = 'firing' ORDER BY fired_at DESC, alert_id
