"""Every default of Batchwright, registered exactly as a third party's plugin is."""
