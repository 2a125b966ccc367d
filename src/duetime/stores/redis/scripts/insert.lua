-- insert: stores new timers; for each nothing, or the row of the one that has its key or its id.
-- It ends early when the answer gets too heavy: what has no answer was not looked at.
local heaviest, answers, weight = tonumber(ARGV[2]), {}, 0
for place = 3, #ARGV do
  local new = cmsgpack.unpack(ARGV[place])
  local owner = redis.call('GET', owner_of(new.key))
  if not owner and redis.call('EXISTS', row_of(new.id)) == 1 then owner = new.id end
  if owner then
    local row = redis.call('HMGET', row_of(owner), 'rest', 'spec')
    answers[#answers + 1] = row
    weight = weight + #row[1] + #row[2]
  else
    redis.call('HSET', row_of(new.id), 'version', new.version, 'due', new.due, 'done', new.done,
      'key', new.key, 'tenant', new.tenant, 'rest', new.rest, 'spec', new.spec)
    if new.outlived then redis.call('HSET', row_of(new.id), 'outlived', new.outlived) end
    redis.call('SET', owner_of(new.key), new.id)
    redis.call('ZADD', IDS, 0, new.id)
    redis.call('ZADD', ids_of(new.tenant), 0, new.id)
    move(DUE, nil, new.due)
    move(DONE, nil, new.done)
    move(OUTLIVED, nil, new.outlived or '')
    tell(log_of(new.id), new.attempts)
    tell(EVENTS, new.events)
    answers[#answers + 1] = false
  end
  if weight >= heaviest then break end
end
return answers
