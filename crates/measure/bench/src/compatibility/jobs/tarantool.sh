# program: Tarantool
# kind: databases
# needs: tarantool
# debian: tarantool
# checks: sums of both engines (memtx and vinyl) after a restart from a snapshot and logs
# survives: every tuple that was inserted (wal_mode fsync), in both engines

version() {
    tarantool --version | awk 'NR == 1 { print $2 }'
}

run() {
    cat >"$NOTES/job.lua" <<'LUA'
box.cfg{wal_mode = 'fsync', log = os.getenv('NOTES') .. '/log', checkpoint_interval = 0,
    memtx_memory = 128 * 1024 * 1024, vinyl_memory = 64 * 1024 * 1024}
local step = arg[1]
local function sum(space)
    local count, sum = 0, 0
    for _, tuple in space:pairs() do
        count, sum = count + 1, sum + tuple[1]
    end
    return count, sum
end
if step == 'work' or step == 'load' then
    for _, engine in ipairs{'memtx', 'vinyl'} do
        box.schema.space.create(engine, {engine = engine}):create_index('primary')
    end
end
if step == 'work' then
    for _, space in ipairs{box.space.memtx, box.space.vinyl} do
        for batch = 0, 99 do
            box.begin()
            for n = batch * 100 + 1, batch * 100 + 100 do space:insert{n, string.rep('x', n % 300)} end
            box.commit()
        end
        for n = 1, 10000, 3 do space:delete{n} end
    end
    box.snapshot()
    for _, space in ipairs{box.space.memtx, box.space.vinyl} do
        for n = 10001, 10200 do space:insert{n, 'after the snapshot'} end
    end
elseif step == 'check' then
    local want, wanted = 0, 0
    for n = 1, 10200 do
        if n > 10000 or n % 3 ~= 1 then want, wanted = want + 1, wanted + n end
    end
    for _, space in ipairs{box.space.memtx, box.space.vinyl} do
        local count, found = sum(space)
        assert(count == want and found == wanted, space.name .. ': ' .. count)
    end
elseif step == 'load' then
    local log = io.open(os.getenv('NOTES') .. '/acknowledged', 'w')
    log:setvbuf('line')
    for n = 1, 1e9 do
        box.space.memtx:insert{n}
        box.space.vinyl:insert{n}
        log:write(n, '\n')
        if n % 1000 == 0 then box.snapshot() end
    end
else
    local noted = 0
    for line in io.lines(os.getenv('NOTES') .. '/acknowledged') do noted = noted + 1 end
    -- The last line may be cut off.
    for _, space in ipairs{box.space.memtx, box.space.vinyl} do
        local count = sum(space)
        assert(count >= noted - 1, space.name .. ' lost: ' .. noted .. ' acknowledged, ' .. count .. ' found')
    end
end
os.exit(0)
LUA
    tarantool "$NOTES/job.lua" "$1" || fail "$(tail -n3 "$NOTES/log")"
}

work() {
    run work
}

check() {
    run check
}

load() {
    run load
}

survived() {
    run survived
}
