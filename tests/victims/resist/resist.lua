-- A LuaJIT program that obeys, accounts and checks itself: traces, errors that unwind through them, coroutines, FFI.
io.stdout:setvbuf("line")
local ffi = require("ffi")
ffi.cdef[[int getpid(void); int usleep(unsigned); void exit(int);]]
local cell = ffi.new("uint64_t[8]")
local rounds, errors = 0, 0

local function hit(n)
  for _ = 1, n do cell[0] = cell[0] + 1 end
end

local function sum(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local function round()
  local good = sum(7000) == 21000
  local ok, why = pcall(function() for i = 1, 200 do if i == 150 then error("x" .. i, 0) end end end)
  good = good and not ok and why == "x150"
  local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(i * i) end return "end" end)
  for i = 1, 50 do good = good and co() == i * i end
  good = good and co() == "end" and ffi.C.usleep(100) == 0
  rounds = rounds + 1
  if not good then errors = errors + 1 end
end

print(string.format("pid %d 0x%x", ffi.C.getpid(), tonumber(ffi.cast("uintptr_t", cell))))
for line in io.lines() do
  local verb, n = line:match("(%a+) ?(%d*)")
  if verb == "hit" then
    round()
    hit(tonumber(n))
    print("ok " .. tostring(tonumber(cell[0])))
  elseif verb == "check" then
    for _ = 1, 3 do round() end
    print("ok " .. rounds .. " " .. errors)
  else
    break
  end
end
print("bye " .. tostring(tonumber(cell[0])) .. " " .. errors)
os.exit(7)
