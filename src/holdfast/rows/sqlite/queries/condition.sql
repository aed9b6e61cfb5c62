-- No row, or what is wrong with a condition that is not complete by itself: one that closes the brackets around it and opens others
-- would have rows of any status claimed.
SELECT 1 FROM {table} WHERE
{where}
LIMIT 0;
