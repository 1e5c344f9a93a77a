-- A load of Lua's: closures, tables, strings, sorting, errors that are caught, coroutines, the collector.
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
print(fib(15))

local words = {}
for w in ("the quick brown fox jumps over the lazy dog and runs away again"):gmatch("%a+") do words[#words + 1] = w end
table.sort(words, function(a, b) return a:reverse() < b:reverse() end)
print(table.concat(words, " "))

local caught = 0
for i = 1, 50 do
  local ok = pcall(function(n)
    if n % 3 == 0 then error({ code = n }) end
    if n % 5 == 0 then return nil + n end
    return n
  end, i)
  if not ok then caught = caught + 1 end
end
print(caught, select(2, pcall(error, "message", 0)), (pcall(string.rep)))

local function generate(n)
  return coroutine.wrap(function()
    for i = 1, n do
      local ok, v = pcall(function() coroutine.yield(i) if i == n then error("end") end return i end)
      if not ok then coroutine.yield(v:match("end")) end
    end
  end)
end
local seen = {}
for v in generate(10) do seen[#seen + 1] = tostring(v) end
print(table.concat(seen, ","))

local t = setmetatable({}, { __index = function(_, k) return k * 2 end, __gc = function() end, __close = nil })
local sum = 0
for i = 1, 100 do sum = sum + t[i] end
t = nil
collectgarbage()
print(sum, #string.format("%q", ("x\n"):rep(100)), os.time { year = 2020, month = 1, day = 1, hour = 12 } > 0)
print(load("return ...")(7), load("syntax error here"))
for i = 1, 200 do local _ = { i, tostring(i), {} } end
collectgarbage("step")
