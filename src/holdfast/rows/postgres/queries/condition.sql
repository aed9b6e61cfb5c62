-- Nothing, or what is wrong with a condition that is none by itself: one that closes the brackets around it and opens others would
-- have rows claimed whatever their status is.
SELECT 1 FROM {table} WHERE
{where}
LIMIT 0;
