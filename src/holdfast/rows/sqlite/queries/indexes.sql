-- The columns of the indexes of a table (NULL for expressions), which of them are unique, and how they were made.
SELECT list.name, list."unique", list.partial, info.name,
(SELECT sql FROM sqlite_schema WHERE name = list.name AND type = 'index')
FROM pragma_index_list(:name) AS list JOIN pragma_index_info(list.name) AS info
ORDER BY list.seq DESC, info.seqno;
