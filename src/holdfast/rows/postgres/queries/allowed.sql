-- Which of the states that a row may be in here fail a condition.
SELECT state FROM (VALUES {states}) AS given (state, {columns}) WHERE ({expression}) IS FALSE;
