-- How many rows of these keys are in progress.
SELECT count(*) FROM {table} WHERE {these} IN ({keys}) AND {status} = {in_progress};
