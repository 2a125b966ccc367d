-- published: forgets these events.
for place = 2, #ARGV do forget(EVENTS, ARGV[place]) end
