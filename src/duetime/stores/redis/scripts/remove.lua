-- remove: drops each timer whose stored version is this one; for each 1 or 0.
local answers = {}
for place = 2, #ARGV, 2 do
  local id, version = ARGV[place], ARGV[place + 1]
  local is_won = redis.call('HGET', row_of(id), 'version') == version
  if is_won then drop(id) end
  answers[#answers + 1] = is_won and 1 or 0
end
return answers
