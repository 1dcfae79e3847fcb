-- Held tasks are listed by their tenant, and counted by track and reason; those of shapes that nobody knew are looked at
-- one track after the other, in the order of their ids.
drop index fleetline.tasks_held;
create index tasks_held on fleetline.tasks (tenant, id) include (track, reason) where state = 'held';
create index tasks_unshaped on fleetline.tasks (track, id) where state = 'held' and reason = 'shape';
