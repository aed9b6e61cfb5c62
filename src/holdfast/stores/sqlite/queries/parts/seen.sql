-- seen(walk): how many jobs a claim has room for are in the lanes judged so far.
walk.before + min(walk.due, :share * walk.weight)
