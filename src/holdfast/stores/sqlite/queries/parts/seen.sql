-- seen(walk): how many jobs a claim could take from the lanes judged, if each gives its share.
walk.before + min(walk.due, :share * walk.weight)
