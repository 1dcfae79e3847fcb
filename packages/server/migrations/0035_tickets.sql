-- pods from: 17
-- Tickets, each of which opens one socket in place of a token. `digest` is the SHA-256 of the ticket, which is shown once and not stored.
-- `caller` is the user of the token, with the token's key, rights, sessions and times. It names a user, so it has no statistics: an erasure
-- does not reach those. Unlogged: a ticket lives 30 seconds, and a client whose ticket is lost in a crash of PostgreSQL gets another one.
create unlogged table fleetline.tickets (
  expires_at timestamptz not null,
  tenant int not null,
  digest bytea primary key,
  caller jsonb not null);
create index on fleetline.tickets (expires_at);
alter table fleetline.tickets alter column caller set statistics 0;
