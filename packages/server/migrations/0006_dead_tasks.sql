-- Dead tasks are asked for by people and counted by the leader: among a million others they are found by this alone. A
-- row stands in it from its death on, so that a task which never dies costs nothing.
create index tasks_dead on fleetline.tasks (tenant, id) include (track) where state = 'dead';

-- A suspect is a task whose pods died twice in a row. It waits apart from those whose time makes them ready.
drop index fleetline.tasks_due;
create index tasks_due on fleetline.tasks (run_at) where state = 'waiting' and reason is distinct from 'suspect';
create index tasks_suspect on fleetline.tasks (track, run_at) where state = 'waiting' and reason = 'suspect';

-- Few fail, and people ask for them.
create index task_history_failed on fleetline.task_history (tenant, id) where outcome = 'failed';

-- A time that every program can read.
alter table fleetline.tasks add check (run_at between '0001-01-01Z' and '9999-12-31Z');
