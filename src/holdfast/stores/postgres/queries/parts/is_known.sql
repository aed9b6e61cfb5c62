-- is_known(): whether a lane of the walk does not lie behind the position at which it gave up.
((priority, is_before, queue, key) > (SELECT priority, is_before, queue, key FROM given_up)) IS NOT TRUE
