-- Return the result of one step, if it has a record.
SELECT result FROM holdfast_steps WHERE job = :job AND name = :step AND nth = :nth;
