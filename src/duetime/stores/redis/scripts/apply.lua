-- apply: writes each change whose old version is the stored one; for each 1 or 0.
local answers = {}
for place = 2, #ARGV do
  local new = cmsgpack.unpack(ARGV[place])
  local stored = redis.call('HMGET', row_of(new.id), 'version', 'due', 'done', 'outlived')
  local is_won = stored[1] == new.old_version
  if is_won then
    redis.call('HSET', row_of(new.id), 'version', new.version, 'due', new.due, 'done', new.done,
      'rest', new.rest)
    if new.spec then redis.call('HSET', row_of(new.id), 'spec', new.spec) end
    if new.outlived then redis.call('HSET', row_of(new.id), 'outlived', new.outlived)
    elseif stored[4] then redis.call('HDEL', row_of(new.id), 'outlived') end
    move(DUE, stored[2], new.due)
    move(DONE, stored[3], new.done)
    move(OUTLIVED, stored[4], new.outlived or '')
    tell(log_of(new.id), new.attempts)
    tell(EVENTS, new.events)
  end
  answers[place - 1] = is_won and 1 or 0
end
return answers
