-- No row, or what is wrong with the SQL for which rows are due, and in what order.
SELECT {key} FROM {table} WHERE {due} {order} LIMIT 0;
