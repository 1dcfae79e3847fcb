-- pods from: 17
-- An operator asks a pod to drain by its row, because nothing but PostgreSQL is between the pods. The pod reads it with its next beat, with
-- which it also writes how many clients it has.
alter table fleetline.pods
  add column drain_asked boolean not null default false,
  add column drain_ms int not null default 0,
  add column sockets int not null default 0,
  add column streams int not null default 0;
