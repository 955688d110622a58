#!/usr/bin/env escript
%% What Erlang's own supervisors take for what `benchmarks/stage.py` measures of ours.
%% Prints one line each: a name, and microseconds.
-mode(compile).
-export([main/1, init/1, start_one/0, start_some/0]).

main([Count, Rounds]) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    restarts(list_to_integer(Rounds)),
    children(list_to_integer(Count)).

restarts(Rounds) ->
    Flags = #{strategy => one_for_one, intensity => 1000000, period => 1},
    Spec = #{id => one, start => {?MODULE, start_one, []}},
    {ok, Sup} = supervisor_start({Flags, [Spec]}),
    Took = [restart(Sup) || _ <- lists:seq(1, Rounds)],
    io:format("restart ~p~n", [lists:nth(Rounds div 2 + 1, lists:sort(Took))]),
    exit(Sup, shutdown).

restart(_Sup) ->
    Before = whereis(one),
    Begun = erlang:monotonic_time(microsecond),
    exit(Before, kill),
    wait(Before),
    erlang:monotonic_time(microsecond) - Begun.

wait(Before) ->
    case whereis(one) of
        undefined -> erlang:yield(), wait(Before);
        Before -> erlang:yield(), wait(Before);
        _ -> ok
    end.

children(Count) ->
    Flags = #{strategy => simple_one_for_one, intensity => 1, period => 5},
    Spec = #{id => many, start => {?MODULE, start_some, []}, restart => temporary},
    {ok, Sup} = supervisor_start({Flags, [Spec]}),
    Begun = erlang:monotonic_time(microsecond),
    [{ok, _} = supervisor:start_child(Sup, []) || _ <- lists:seq(1, Count)],
    Up = erlang:monotonic_time(microsecond),
    io:format("start ~p~n", [(Up - Begun) / Count]),
    exit(Sup, shutdown).

supervisor_start(Spec) ->
    supervisor:start_link(?MODULE, Spec).

init(Spec) -> {ok, Spec}.

start_one() ->
    Pid = spawn_link(fun() -> receive stop -> ok end end),
    register(one, Pid),
    {ok, Pid}.

start_some() ->
    {ok, spawn_link(fun() -> receive stop -> ok end end)}.
