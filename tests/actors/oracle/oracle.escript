#!/usr/bin/env escript
%%! -noshell +S 2
%% Runs scenarios on the real supervisor of OTP and prints what happened.
%%
%% stdin:  Erlang terms, {scenario, Number, Tree, Steps}, or {together, [Scenario]} to let them wait
%%         for the clock at the same time
%% stdout: "scenario N", then one line for every thing that happened, then "done"
%%
%% Nothing here depends on timing: after every step we wait until no supervisor knows a dead child,
%% none is about to try a restart again, and all of them answer.

-module(oracle).
-mode(compile).
-export([main/1, init/1, start_worker/2, start_supervisor/2, worker/4]).

main(_) ->
    logger:set_primary_config(level, none),
    lists:foreach(fun run/1, read_all([])).

read_all(Terms) ->
    case io:read('') of
        {ok, Term} -> read_all([Term | Terms]);
        eof -> lists:reverse(Terms)
    end.

run({together, Scenarios}) ->
    Self = self(),
    Runs = [spawn_link(fun() -> Self ! {self(), play(S)} end) || S <- Scenarios],
    Logs = [receive {Run, Log} -> Log end || Run <- Runs],
    lists:foreach(fun({S, Log}) -> print(S, Log) end, lists:zip(Scenarios, Logs));
run(Scenario) ->
    print(Scenario, play(Scenario)).

print({scenario, Number, _, _}, Log) ->
    io:put_chars(["scenario ", integer_to_list(Number), "\n", Log, "done\n"]).

%% --- one scenario -------------------------------------------------------------------------------

play(Scenario) ->
    Self = self(),
    %% A process of its own: what is linked to it is gone when it is.
    {Run, Monitor} = spawn_monitor(fun() -> Self ! {self(), perform(Scenario)} end),
    receive
        {Run, Log} -> erlang:demonitor(Monitor, [flush]), Log;
        {'DOWN', Monitor, process, Run, Why} -> [io_lib:format("oracle failed: ~0p~n", [Why])]
    end.

perform({scenario, _, Tree, Steps}) ->
    process_flag(trap_exit, true),
    Table = ets:new(scenario, [public]),
    case start_supervisor(Table, Tree) of
        {ok, Root} ->
            show(Table, Root),
            go(Table, Root, Steps);
        {error, Reason} ->
            log(Table, "not started ~s", [word(Reason)])
    end,
    Lines = lists:sort([{N, Line} || {{line, N}, Line} <- ets:tab2list(Table)]),
    [[Line, $\n] || {_, Line} <- Lines].

go(Table, Root, Steps) ->
    case settle(Root) of
        {gone, Reason} ->
            log(Table, "gone ~s", [word(Reason)]);
        alive when Steps =:= [] ->
            exit(Root, shutdown),
            receive {'EXIT', Root, Reason} -> log(Table, "gone ~s", [word(Reason)]) end;
        alive ->
            [Step | Rest] = Steps,
            log(Table, "step", []),
            Answers = step(Table, Step),
            After = settle(Root),
            [log(Table, "~s", [Answer]) || Answer <- Answers],
            case After of
                alive -> show(Table, Root);
                {gone, Reason} -> self() ! {'EXIT', Root, Reason}
            end,
            go(Table, Root, Rest)
    end.

%% Does it, and says what was answered; that is written down when all is quiet again.
step(_, {wait, Milliseconds}) ->
    timer:sleep(Milliseconds),
    [];
step(Table, {exit, Id, Reason}) ->
    finish(Table, Id, Reason),
    [];
step(Table, {call, Id, Request}) ->
    [answer(Table, pid(Table, Id), Request)];
step(Table, {burst, Id, Parts}) ->
    burst(Table, pid(Table, Id), Parts).

%% End a child from within, and wait until it is gone with all that hangs on it.
finish(Table, Id, Reason) ->
    Pid = pid(Table, Id),
    case is_pid(Pid) andalso is_process_alive(Pid) of
        false ->
            log(Table, "nobody ~s", [Id]);
        true ->
            Below = below(Pid),
            %% What dies with a killed supervisor does so while that is started again, in no order.
            [ets:insert(Table, {{quiet, Each}}) || Each <- Below],
            Monitors = [monitor(process, Each) || Each <- [Pid | Below]],
            case Reason of
                kill -> exit(Pid, kill);
                _ -> Pid ! {finish, Reason}
            end,
            [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors]
    end.

below(Pid) ->
    case proc_lib:translate_initial_call(Pid) of
        {supervisor, _, _} ->
            Children = [Child || {_, Child, _, _} <- supervisor:which_children(Pid), is_pid(Child)],
            Children ++ lists:append([below(Child) || Child <- Children]);
        _ -> []
    end.

%% Several things that a supervisor finds in its mailbox at once, in this order.
burst(Table, Sup, Parts) ->
    case is_pid(Sup) andalso is_process_alive(Sup) of
        false ->
            ["nobody"];
        true ->
            sys:suspend(Sup),
            Waiting = lists:append([part(Table, Sup, Part) || Part <- Parts]),
            sys:resume(Sup),
            [receive {Asker, Answer} -> Answer end || Asker <- Waiting]
    end.

part(Table, Sup, {exit, Id, Reason}) ->
    Pid = pid(Table, Id),
    Mine = is_pid(Pid) andalso is_process_alive(Pid) andalso
        lists:member(Pid, element(2, process_info(Sup, links))),
    case Mine of
        false -> log(Table, "nobody ~s", [Id]);
        true ->
            finish(Table, Id, Reason),
            until(fun() ->
                {messages, Messages} = process_info(Sup, messages),
                lists:any(fun({'EXIT', From, _}) -> From =:= Pid; (_) -> false end, Messages)
            end)
    end,
    [];
part(Table, Sup, {call, Request}) ->
    {message_queue_len, Before} = process_info(Sup, message_queue_len),
    Self = self(),
    Asker = spawn(fun() -> Self ! {self(), answer(Table, Sup, Request)} end),
    until(fun() -> {message_queue_len, Before + 1} =:= process_info(Sup, message_queue_len) end),
    [Asker].

until(Holds) ->
    case Holds() of
        true -> ok;
        false -> erlang:yield(), until(Holds)
    end.

%% --- looking ------------------------------------------------------------------------------------

settle(Root) ->
    case is_process_alive(Root) of
        false ->
            receive {'EXIT', Root, Reason} -> {gone, Reason} end;
        true ->
            case is_settled(Root) of
                true -> alive;
                false -> erlang:yield(), settle(Root)
            end
    end.

is_settled(Sup) ->
    try supervisor:which_children(Sup) of
        Children -> lists:all(fun is_settled_child/1, Children)
    catch
        exit:_ -> false
    end.

is_settled_child({_, undefined, _, _}) -> true;
is_settled_child({_, restarting, _, _}) -> false;
is_settled_child({_, Pid, worker, _}) -> is_process_alive(Pid);
is_settled_child({_, Pid, supervisor, _}) -> is_process_alive(Pid) andalso is_settled(Pid).

show(Table, Sup) ->
    Children = supervisor:which_children(Sup),
    [{specs, Specs}, {active, Active}, {supervisors, Supervisors}, {workers, Workers}] =
        supervisor:count_children(Sup),
    Shown = [[atom_to_list(Id), $=, if is_pid(Pid) -> "up"; true -> atom_to_list(Pid) end, $ ]
             || {Id, Pid, _, _} <- Children],
    log(Table, "children ~s~b ~b ~b ~b", [Shown, Specs, Active, Supervisors, Workers]),
    [show(Table, Pid) || {_, Pid, supervisor, _} <- Children, is_pid(Pid)].

pid(Table, Id) ->
    case ets:lookup(Table, {pid, Id}) of
        [{_, Pid}] -> Pid;
        [] -> nobody
    end.

answer(_, nobody, _) ->
    "noproc";
answer(Table, Sup, Request) ->
    try told(Table, Sup, Request) of
        ok -> "ok";
        {ok, Pid} when is_pid(Pid) -> "ok up";
        {ok, undefined} -> "ok undefined";
        {error, {already_started, _}} -> "already_started";
        {error, {bad_combination, _}} -> "invalid_spec";
        {error, Why} when Why =:= already_present; Why =:= running; Why =:= restarting;
                          Why =:= not_found -> atom_to_list(Why);
        {error, _} -> "start_failed"
    catch
        exit:_ -> "noproc"
    end.

told(Table, Sup, {start_child, Node}) -> supervisor:start_child(Sup, spec(Table, Node));
told(_, Sup, {terminate_child, Id}) -> supervisor:terminate_child(Sup, Id);
told(_, Sup, {restart_child, Id}) -> supervisor:restart_child(Sup, Id);
told(_, Sup, {delete_child, Id}) -> supervisor:delete_child(Sup, Id).

log(Table, Format, Arguments) ->
    Number = ets:update_counter(Table, lines, 1, {lines, 0}),
    ets:insert(Table, {{line, Number}, io_lib:format(Format, Arguments)}).

word(normal) -> "normal";
word(shutdown) -> "shutdown";
word({shutdown, _}) -> "shutdown with more";
word(killed) -> "killed";
word(_) -> "crash".

%% --- the cast -----------------------------------------------------------------------------------

start_supervisor(Table, Node) ->
    supervisor:start_link(?MODULE, {Table, Node}).

init({Table, {supervisor, Id, _, {Strategy, Intensity, Period, Auto}, Children}}) ->
    log(Table, "start ~s", [Id]),
    ets:insert(Table, {{pid, Id}, self()}),
    Flags = #{strategy => Strategy, intensity => Intensity, period => Period,
              auto_shutdown => Auto},
    {ok, {Flags, [spec(Table, Child) || Child <- Children]}}.

spec(Table, {Type, Id, {Restart, Shutdown, Significant}, _, _} = Node) ->
    Start = case Type of worker -> start_worker; supervisor -> start_supervisor end,
    #{id => Id, start => {?MODULE, Start, [Table, Node]}, restart => Restart,
      shutdown => Shutdown, significant => Significant, type => Type}.

start_worker(Table, {worker, Id, _, Outcomes, Manner}) ->
    proc_lib:start_link(?MODULE, worker, [Table, Id, Outcomes, Manner]).

worker(Table, Id, Outcomes, Manner) ->
    process_flag(trap_exit, true),
    Number = ets:update_counter(Table, {starts, Id}, 1, {{starts, Id}, 0}),
    Outcome = case Number =< length(Outcomes) of
        true -> lists:nth(Number, Outcomes);
        false -> ok
    end,
    log(Table, "start ~s ~s", [Id, Outcome]),
    case Outcome of
        ok ->
            ets:insert(Table, {{pid, Id}, self()}),
            proc_lib:init_ack({ok, self()}),
            loop(Table, Id, Manner, hd(get('$ancestors')));
        ignore ->
            proc_lib:init_ack(ignore),
            exit(normal);
        Reason ->
            exit(Reason)
    end.

loop(Table, Id, Manner, Parent) ->
    receive
        {'EXIT', Parent, shutdown} ->
            ets:member(Table, {quiet, self()}) orelse log(Table, "stop ~s", [Id]),
            case Manner of
                polite -> exit(shutdown);
                rude -> exit(boom);
                stubborn -> receive never -> ok end
            end;
        {'EXIT', Parent, Reason} -> exit(Reason);
        {finish, Reason} -> exit(Reason)
    end.
