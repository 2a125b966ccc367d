-- published: forgets these events.
for place = 2, #ARGV do
  redis.call('ZREMRANGEBYLEX', EVENTS, '[' .. ARGV[place], '(' .. ARGV[place] .. '~')
end
